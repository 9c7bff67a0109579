"""From the `loops` stage to machine code: LLVM IR text, vector math, objects, linking."""
