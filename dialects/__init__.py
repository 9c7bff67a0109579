"""The dialects: `place`, `nn`, `tile` and `rt`. Ops, types, verifiers, assembly formats."""
