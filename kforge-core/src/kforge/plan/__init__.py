"""From a traced reference to a language-neutral list of kernels."""
