// The C side of kforge_xpu.SyclModule. Only plain C types cross this boundary, so that any C++ compiler and any
// standard library may build it; libsycl's own headers keep std::string out of its ABI.
//
// A queue is the address of a sycl::queue: kf_open_cpu's, or one that somebody else owns (torch.xpu's streams hand
// theirs out). Every function that can fail returns 0 on failure and leaves a text for kf_error(); texts are per thread.

#include <sycl/sycl.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace syclexp = sycl::ext::oneapi::experimental;

namespace {

using Bundle = sycl::kernel_bundle<sycl::bundle_state::executable>;

thread_local std::string last_error;
thread_local std::string last_text;

struct Module {
  Bundle bundle;
  sycl::device device;
};

// The packed request of one launch: this header, `count` bytes saying how large each argument is (0: a pointer),
// padding to 8 bytes, then the arguments, each padded to 8 bytes.
struct Request {
  std::uint64_t global_size[3];
  std::uint64_t local_size[3];
  std::uint32_t dimensions; // 0: a single_task kernel
  std::uint32_t count;
  unsigned char sizes[];
};

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

template <typename Call> auto guarded(Call call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception &problem) {
    last_error = problem.what();
  } catch (...) {
    last_error = "unknown C++ exception";
  }
  return decltype(call()){};
}

template <int Dimensions> sycl::nd_range<Dimensions> range_of(const Request &request) {
  sycl::range<Dimensions> global_size, local_size;
  for (int i = 0; i < Dimensions; ++i) {
    global_size[i] = request.global_size[i];
    local_size[i] = request.local_size[i];
  }
  return {global_size, local_size};
}

void enqueue(sycl::handler &handler, const sycl::kernel &kernel, const Request &request) {
  const unsigned char *slot = request.sizes + padded(request.count);
  for (std::uint32_t i = 0; i < request.count; ++i) {
    const std::size_t size = request.sizes[i];
    if (size == 0) {
      void *pointer;
      std::memcpy(&pointer, slot, sizeof pointer);
      handler.set_arg(static_cast<int>(i), pointer);
    } else {
      handler.set_arg(static_cast<int>(i), syclexp::raw_kernel_arg(slot, size));
    }
    slot += padded(size == 0 ? sizeof(void *) : size);
  }
  switch (request.dimensions) {
  case 0: handler.single_task(kernel); break;
  case 1: handler.parallel_for(range_of<1>(request), kernel); break;
  case 2: handler.parallel_for(range_of<2>(request), kernel); break;
  default: handler.parallel_for(range_of<3>(request), kernel); break;
  }
}

std::vector<std::string> strings(const char *const *items, int count) { return {items, items + count}; }

} // namespace

extern "C" {

const char *kf_error() { return last_error.c_str(); }

const char *kf_text() { return last_text.c_str(); }

// A queue on the CPU. Only Intel's OpenCL is taken: another platform may list a CPU for which the
// kernel compiler's output is refused.
void *kf_open_cpu() {
  return guarded([]() -> void * {
    std::string seen;
    for (const auto &platform : sycl::platform::get_platforms()) {
      const auto name = platform.get_info<sycl::info::platform::name>();
      for (const auto &device : platform.get_devices(sycl::info::device_type::all)) {
        seen += (seen.empty() ? "" : ", ") + device.get_info<sycl::info::device::name>() + " (" + name + ")";
        if (!device.is_cpu() || name.find("Intel(R) OpenCL") == std::string::npos)
          continue;
        if (!device.has(sycl::aspect::usm_system_allocations))
          throw std::runtime_error(name + " cannot read ordinary memory (no usm_system_allocations)");
        // In order: consecutive launches of one thread see each other's results, as with torch.
        const auto rethrow = [](sycl::exception_list problems) {
          for (const auto &problem : problems)
            std::rethrow_exception(problem);
        };
        return new sycl::queue(device, rethrow, sycl::property::queue::in_order{});
      }
    }
    throw std::runtime_error(seen.empty() ? "SYCL lists no device at all" : "SYCL lists only " + seen);
  });
}

const char *kf_device_name(void *queue) {
  return guarded([&]() -> const char * {
    last_text = static_cast<sycl::queue *>(queue)->get_device().get_info<sycl::info::device::name>();
    return last_text.c_str();
  });
}

// limits: max work-group size, then max work-items per dimension in SYCL's order.
int kf_device_limits(void *queue, std::uint64_t *limits) {
  return guarded([&] {
    const auto device = static_cast<sycl::queue *>(queue)->get_device();
    limits[0] = device.get_info<sycl::info::device::max_work_group_size>();
    const auto items = device.get_info<sycl::info::device::max_work_item_sizes<3>>();
    for (int i = 0; i < 3; ++i)
      limits[i + 1] = items[i];
    return 1;
  });
}

// After success kf_text() is the compiler's log (warnings); after failure kf_error() is the whole exception.
void *kf_build(void *queue, const char *source, std::size_t length, const char *const *options, int option_count,
               const char *const *names, int name_count) {
  last_text.clear();
  return guarded([&]() -> void * {
    auto &on = *static_cast<sycl::queue *>(queue);
    auto from = syclexp::create_kernel_bundle_from_source(on.get_context(), syclexp::source_language::sycl,
                                                          std::string(source, length));
    std::string log;
    auto built = syclexp::build(from, {on.get_device()},
                                syclexp::properties{syclexp::build_options{strings(options, option_count)},
                                                    syclexp::save_log{&log},
                                                    syclexp::registered_names{strings(names, name_count)}});
    last_text = log;
    return new Module{built, on.get_device()};
  });
}

int kf_has_kernel(void *module, const char *name) {
  return guarded([&] { return static_cast<Module *>(module)->bundle.ext_oneapi_has_kernel(std::string(name)) ? 1 : 0; });
}

// facts: number of arguments, max work-group size of this kernel on the device, required work-group size (3, 0 = free).
void *kf_kernel(void *module, const char *name, std::uint64_t *facts) {
  return guarded([&]() -> void * {
    auto &from = *static_cast<Module *>(module);
    auto kernel = std::make_unique<sycl::kernel>(from.bundle.ext_oneapi_get_kernel(std::string(name)));
    namespace specific = sycl::info::kernel_device_specific;
    facts[0] = kernel->get_info<sycl::info::kernel::num_args>();
    facts[1] = kernel->get_info<specific::work_group_size>(from.device);
    const auto required = kernel->get_info<specific::compile_work_group_size>(from.device);
    for (int i = 0; i < 3; ++i)
      facts[i + 2] = required[i];
    return kernel.release();
  });
}

// `wait` != 0: returns when the work is done; otherwise it is only enqueued.
int kf_launch(void *queue, void *kernel, const void *request, int wait) {
  return guarded([&] {
    auto &on = *static_cast<sycl::queue *>(queue);
    const auto &what = *static_cast<sycl::kernel *>(kernel);
    const auto &with = *static_cast<const Request *>(request);
    syclexp::submit(on, [&](sycl::handler &handler) { enqueue(handler, what, with); });
    if (wait)
      on.wait_and_throw();
    return 1;
  });
}

} // extern "C"
