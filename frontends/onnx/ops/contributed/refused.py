"""Ops of ONNX Runtime's domain that are refused for a reason of their own."""

from __future__ import annotations

from tessella.frontends.onnx.registry import refuse_contributed

refuse_contributed(
    "the op wraps the search for tokens around a decoder; compile the decoder alone, and generate "
    "tokens in a loop around its calls (model.bind keeps the caches)",
    *("BeamSearch", "WhisperBeamSearch", "GreedySearch", "Sampling"),
)
refuse_contributed(
    "the op belongs to a beam search, and writes its caches in place; export the decoder with "
    "MultiHeadAttention or GroupQueryAttention",
    *("DecoderMaskedSelfAttention", "DecoderMaskedMultiHeadAttention"),
)
refuse_contributed(
    "the cache of the op is blocks of a table that a server manages; export the decoder with "
    "GroupQueryAttention",
    "PagedAttention",
)
refuse_contributed(
    "a router chooses the experts that the op runs for each token; export the experts as products, "
    "all of which are computed",
    *("MoE", "QMoE"),
)
refuse_contributed(
    "the op drops elements at random, as in training; export the model for inference",
    *("BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"),
)
