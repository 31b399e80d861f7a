"""Framework: what the software that runs a step does its own way, one record each; a new one is one entry.

Traits decide by branches which kernels run, what is kept and what is sent; host time per launch is in ``efficiencies``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class PublishedDefaults:
    """What tables of measured runs leave unsaid, because it is this framework's default or its recipes' custom.

    ``recipes``: on recent chips its published recipes shard the optimizer (ZeRO-1), use sequence parallelism and
    overlap. ``exposes_ddp``: elsewhere plain data parallelism runs after backward. ``bucket_parameters``: least size
    of a gradient bucket, and per data parallel rank. ``dropout``: what it drops unless told otherwise, as runs on older
    chips do whose attention kept the scores, and runs that list what they were told; its recipes drop nothing. None
    where it drops nothing by itself. ``engine``: Transformer Engine chooses the kernel of its attention; runs on older
    chips that do not name it kept the scores. ``micro_batches_as_stages``: a pipeline cuts a rank's sequences into as
    many micro-batches as it has stages. ``optimizers``: by the catalogue's models, what the recipe for a model sets
    instead of AdamW. ``variants``: likewise, the record of what its recipe for a model leaves as it is.
    """

    recipes: bool = False
    exposes_ddp: bool = False
    bucket_parameters: tuple[int, int] | None = None
    dropout: float | None = None
    engine: bool = False
    micro_batches_as_stages: bool = False
    optimizers: tuple[tuple[str, str], ...] = ()
    variants: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Framework:
    """Traits of one framework; each default is what plain PyTorch does.

    - ``fuses``: element-wise kernels are compiled into a few, without ``compile`` being set.
    - ``host``: whose host time per launch applies: ``eager``, ``fused``, ``megatron``, or none.
    - ``contention``: the efficiency that says what products lose while data parallel collectives run beside them.
    - ``lower_bound``: no software at all: no host, no kernels but the needed ones, nothing sent that need not be.
    - ``vocab_parallel``: embedding and head are split over the tensor parallel ranks.
    - ``vocab_parallel_loss``: the loss over a split vocabulary runs in fp32, kernel by kernel (Megatron-Core).
    - ``master_weights``: 2-byte parameters beside fp32 master weights and fp32 main gradients.
    - ``in_place_buffers``: parameters and gradients live in the buffers that travel (Megatron-Core's
      param_and_grad_buffer), so that nothing is copied in and out.
    - ``adds_in_products``: weight-gradient products add to the main gradient, which they read and write.
    - ``accumulates``: one more micro-batch's gradients are added by kernels of their own.
    - ``fused_optimizer``: the update needs no temporaries.
    - ``merges_parallel``: outputs of parallel attention and FFN are added before one sum over the ranks (GPT-NeoX,
      gpt_j_residual in megatron/model/transformer.py).
    - ``merges_input_gradients``: where both read one norm, their input gradients are added before one sum.
    - ``fuses_projections``: queries, keys and values are one product.
    - ``keeps_gathered``: under sequence parallelism gathered inputs stay for backward (DTensor) instead of being
      gathered again (Megatron).
    - ``redoes_whole_blocks``: full recomputation runs a block to its end (Megatron's reentrant CheckpointFunction), not
      only as far as backward needs it (PyTorch's early stop, XLA's dead code).
    - ``checkpoints_reentrantly``: recomputed regions run without recording and start autograd anew in backward, instead
      of packing what each of their ops saves (use_reentrant=True of torch.utils.checkpoint, all there was up to PyTorch
      1.10, and what gradient_checkpointing_enable of transformers asks for unless told).
    - ``keeps_products``: selective recomputation keeps what attention and every second product of a block give and runs
      all else again (torch.utils.checkpoint's selective contexts as torchtitan sets them), where Megatron's and the
      runners' runs attention's core again.
    - ``upcasts_logits``: where it is not compiled, the loss is of logits in fp32, whatever they are made in.
    - ``compiles_loss``: who compiles blocks compiles the loss.
    - ``pads_products``: who compiles the head copies what it multiplies into rows that a matrix unit can fetch, where a
      vocabulary makes odd ones (torch._inductor, pad_mm; XLA's layouts).
    - ``wide_states``: parameters, gradients and moments are fp32 in all 16-bit precisions and narrower ones.
    - ``gathers_once``: under a pipeline parameters that FSDP shards are gathered once in a step and kept, and gradients
      stay whole until the last micro-batch's are scattered (torch.distributed.pipelining's stages, and
      reshard_after_forward as torchtitan leaves it there).
    - ``weighs_inside_experts``: routing weights are applied before the down projection, not to what comes back.
    - ``transposes_for_flash``: FlashAttention takes sequences before tokens, all else tokens before sequences, so that
      queries, keys, values and output are copied, and the projection keeps its copy beside attention's (Megatron-Core;
      sbhd in transformer_engine/pytorch/attention/dot_product_attention/backends.py).
    - ``multiplies_apart``: what takes all experts at once multiplies them one after another (Transformer Engine's
      GroupedLinear: nvte_multi_tensor_gemm calls cuBLAS for each).
    - ``multiplies_grouped``: what takes all experts at once is torch's grouped product (torch._grouped_mm), not a
      batched one.
    - ``clamps_apart``: what cuts gate and up off is no part of the activation's compiled kernel (Megatron-Core's
      weighted_bias_quick_geglu_impl clamps before it calls that).
    - ``routes_op_by_op``: routing, and the turning of latent attention's queries and keys, are kernels of plain
      PyTorch, and experts' rows are exchanged by plain all-to-alls (Megatron-Core without moe_router_fusion,
      apply_rope_fusion and moe_flex_dispatcher_backend, as Megatron-Bridge has models of
      DeepSeek-V3's kind unless told otherwise).
    - ``frees_between_stages``: what pipeline stages exchange has memory only while it is needed (Megatron's
      deallocate_pipeline_outputs); torch.distributed.pipelining holds outputs until their backward, and buffers for
      the messages of all micro-batches from the start.
    - ``caching_allocator``: large tensors have segments of PyTorch's allocator, which rounds them up.
    - ``multi_tensor``: the optimizer runs over all tensors at once where kernels are launched (PyTorch's from 2.0).
    - ``keeps_gradients``: gradients are zeroed after a step, not freed (zero_grad before PyTorch 2.0).
    - ``clips_gradients``: all gradients' norm is taken, and they are scaled by it, before the update (max_grad_norm of
      transformers' TrainingArguments is 1 unless set to 0). Where one kernel updates all, that is in it.
    - ``softmax_keeps_input``: the softmax of the scores keeps its input beside its result (PyTorch before 1.11).
    - ``dtensor``: tensor parallelism is DTensor's and sharded parameters are FSDP2's, with what Python does for each.
    - ``pieces_attention``: the implementation of attention that runs where ranks hold pieces of a sequence, whatever
      runs whole ones; "" the same. Only FlashAttention gives PyTorch the sums that pieces are joined by, and takes
      queries that see more keys than there are of them.
    - ``measurable``: the runners run a step as it does.
    """

    label: str
    fuses: bool = False
    host: str = "eager"
    contention: str = "contention_frac"
    lower_bound: bool = False
    vocab_parallel: bool = False
    vocab_parallel_loss: bool = False
    master_weights: bool = False
    in_place_buffers: bool = False
    adds_in_products: bool = False
    accumulates: bool = True
    fused_optimizer: bool = False
    merges_parallel: bool = False
    merges_input_gradients: bool = True
    fuses_projections: bool = False
    keeps_gathered: bool = False
    redoes_whole_blocks: bool = False
    checkpoints_reentrantly: bool = False
    keeps_products: bool = False
    upcasts_logits: bool = False
    compiles_loss: bool = True
    pads_products: bool = False
    wide_states: bool = False
    gathers_once: bool = False
    weighs_inside_experts: bool = False
    transposes_for_flash: bool = False
    multiplies_apart: bool = False
    multiplies_grouped: bool = False
    clamps_apart: bool = False
    routes_op_by_op: bool = False
    frees_between_stages: bool = False
    caching_allocator: bool = True
    multi_tensor: bool = True
    keeps_gradients: bool = False
    clips_gradients: bool = False
    softmax_keeps_input: bool = False
    dtensor: bool = False
    pieces_attention: str = ""
    measurable: bool = False
    published: PublishedDefaults = PublishedDefaults()


# activation_checkpoint.py, fsdp.py and pipeline_parallel.py of torchtitan/distributed, components/loss.py (November
# 2026), training.dtype and mixed_precision_param of its configuration. A scenario says ``compile`` where blocks and
# loss are compiled.
_TORCHTITAN = Framework(
    label="torchtitan",
    vocab_parallel=True,
    keeps_gathered=True,
    dtensor=True,
    multiplies_grouped=True,
    pieces_attention="flash",
    keeps_products=True,
    upcasts_logits=True,
    wide_states=True,
    gathers_once=True,
)

_EAGER = Framework(
    label="PyTorch eager",
    pads_products=True,
    keeps_gathered=True,
    dtensor=True,
    multiplies_grouped=True,
    pieces_attention="flash",
    measurable=True,
)

_MEGATRON = Framework(
    label="Megatron",
    fuses=True,
    host="megatron",
    contention="contention_megatron_frac",
    vocab_parallel=True,
    vocab_parallel_loss=True,
    master_weights=True,
    in_place_buffers=True,
    adds_in_products=True,
    accumulates=False,
    fused_optimizer=True,
    merges_parallel=True,
    merges_input_gradients=False,
    fuses_projections=True,
    redoes_whole_blocks=True,
    weighs_inside_experts=True,
    transposes_for_flash=True,
    multiplies_apart=True,
    clamps_apart=True,
    frees_between_stages=True,
    # megatron/core/distributed/distributed_data_parallel.py: max(40 M, 1 M per data parallel rank) gradients.
    # hidden_dropout and attention_dropout of megatron/core/transformer/transformer_config.py. Megatron-Bridge's
    # recipes/moonlight (main_grads_dtype, exp_avg_dtype; all but those for adapters on two GPUs): its other recipes
    # with moments of two bytes keep gradients of four, or are not those that its tables of speed are of.
    published=PublishedDefaults(
        recipes=True,
        exposes_ddp=True,
        bucket_parameters=(40_000_000, 1_000_000),
        dropout=0.1,
        engine=True,
        optimizers=(("moonlight-16b-a3b", "adamw-bf16"),),
        variants=(("moonlight-16b-a3b", "megatron-unfused"),),
    ),
)

# _softmax_backward_data took the softmax's input until 1.11 (BERT-large in fp32 on a V100: 2 089 MiB for each sequence
# of 512 tokens, 1 656 without it).
_EAGER_2022 = Framework(
    label="PyTorch up to 1.10",
    multi_tensor=False,
    keeps_gradients=True,
    softmax_keeps_input=True,
    redoes_whole_blocks=True,
    checkpoints_reentrantly=True,
)
_TRANSFORMERS = replace(
    _EAGER, label="Hugging Face transformers", redoes_whole_blocks=True, checkpoints_reentrantly=True, measurable=False
)

FRAMEWORKS = {
    "pytorch-eager": _EAGER,
    "pytorch-1.10": _EAGER_2022,
    "transformers": _TRANSFORMERS,
    "trainer": replace(_TRANSFORMERS, label="Hugging Face Trainer", clips_gradients=True),
    "trainer-2022": replace(_EAGER_2022, label="Hugging Face Trainer up to PyTorch 1.10", clips_gradients=True),
    "pytorch-compile": replace(_EAGER, label="PyTorch compiled", fuses=True, host="fused"),
    "torchtitan": _TORCHTITAN,
    # build_cross_entropy_loss compiles from commit bbb1b61 on (2 April 2025); until then only blocks were.
    # pipeline_parallel_microbatches of its configuration was the number of stages unless given.
    "torchtitan-2024": replace(
        _TORCHTITAN,
        label="torchtitan up to March 2025",
        compiles_loss=False,
        published=PublishedDefaults(micro_batches_as_stages=True),
    ),
    "megatron": _MEGATRON,
    "megatron-unfused": replace(_MEGATRON, label="Megatron (routing not fused)", routes_op_by_op=True),
    "xla": Framework(
        label="XLA (JAX)",
        pads_products=True,
        fuses=True,
        frees_between_stages=True,
        caching_allocator=False,
        host="fused",
        vocab_parallel=True,
        master_weights=True,
        fused_optimizer=True,
        merges_parallel=True,
        fuses_projections=True,
        published=PublishedDefaults(recipes=True),
    ),
    "ideal": Framework(
        label="ideal (lower bound)",
        fuses=True,
        frees_between_stages=True,
        caching_allocator=False,
        host="none",
        lower_bound=True,
        vocab_parallel=True,
        in_place_buffers=True,
        accumulates=False,
        fused_optimizer=True,
        merges_parallel=True,
        fuses_projections=True,
        weighs_inside_experts=True,
    ),
}
"""Frameworks by the name that scenarios give."""
