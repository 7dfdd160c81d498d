"""Text of rendered candidates: how SYCL writes types and functions, kernels, and the module around them."""
