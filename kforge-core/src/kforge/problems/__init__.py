"""Problems: files in KernelBench's format, read and checked before anything of them runs."""
