"""The LLVM IR of the pool of threads, with names of offsets that ``codegen.pool`` fills in."""
