"""Notes of the 4D parallelism study, for its readers."""

NOTES = (
    "(a) Parameters are those of 2·layers linears; attention, embeddings and the output linear are left out.",
    "(a) The printed total adds up its parts after rounding: 3,517.57 GB instead of 3,517.58 GB.",
    "(a) What the question calls saved for backward are activations: the inputs of both linears of every block. "
    "The reference answers with copies of weights and gradients in 16 bits, shown here beside them.",
    "(b) The reference leaves (b), (c) and (d) without an answer; what stands here follows from the equations.",
    "(b) M(N) = (states + A/2)/N + A/2, A = 2·(d + f)·layers bytes for each token; N is the smallest with M(N) "
    "below the capacity.",
    "(c) Bounds are of the forward pass. Per-device batch may mean tokens of an FSDP shard, B/X, or of a chip, "
    "B/(X·Y); both are shown.",
    "(c) Axes overlapped: compute must outlast each exchange (maximum); not overlapped: both together (sum). "
    "Editions of the Scaling Book differ in this.",
    "(d) More tensor parallelism divides the batch until Y = F·M_Y/α, where its own exchanges bind.",
    "(d) Pipeline stages divide X at the same number of chips; the bubble (p − 1)/(m + p − 1) is the price (arXiv "
    "2104.04473), less with zero-bubble schedules (arXiv 2401.10241). The batch is that of all m micro-batches only "
    "while a stage keeps the weights that it gathered for the first of them until the last, s·parameters/(p·Y) bytes "
    "of every chip; a stage that gathers them for each micro-batch needs m times the batch.",
    "(d) Weights sent in 8 bits halve FSDP's bound "
    "(ZeRO++, arXiv 2306.10209); computing in 8 bits doubles C and the bound. Sharding inside a fast sub-mesh and "
    "replicating outside keeps gathers on fast axes (MiCS, arXiv 2205.00119). Gradient accumulation does "
    "not make the batch smaller: micro-batches that share one gather make up the batch together, and those that gather "
    "again need as much each.",
)
