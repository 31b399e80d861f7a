import sys

import torch
from torch.utils.data import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

kind = sys.argv[1]
batch, length = int(sys.argv[2]), int(sys.argv[3])
sizes = {
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "llama-1b": (
        "llama",
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
    ),
    "qwen2-0.5b": (
        "qwen2",
        {
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
        },
    ),
}
name, values = sizes[kind]
config = AutoConfig.for_model(name, **values)
model = AutoModelForCausalLM.from_config(config)


class Tokens(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, config.vocab_size, (length,), generator=generator)
        return {"input_ids": ids, "labels": ids}


arguments = TrainingArguments(
    output_dir="/tmp/trainer",
    per_device_train_batch_size=batch,
    max_steps=60,
    bf16=True,
    report_to=[],
    save_strategy="no",
    logging_steps=10,
    gradient_checkpointing="checkpointed" in sys.argv[4:],
    gradient_accumulation_steps=2 if "accumulated" in sys.argv[4:] else 1,
    torch_compile="compiled" in sys.argv[4:],
    dataloader_num_workers=0,
)
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
