# Makes from_pytorch.safetensors, which the tests read: a model as PyTorch saves it, both biases in use.
# The values are exact in float32, so that the sums can be checked by eye.
import torch
from safetensors.torch import save_file

V, d = 3, 2
model = torch.nn.ModuleDict({
    "encoder": torch.nn.Embedding(V, d),
    "rnn": torch.nn.LSTM(d, d, 1),
    "decoder": torch.nn.Linear(d, V),
})
next_value = 0.0
for name, tensor in model.state_dict().items():
    values = torch.arange(tensor.numel(), dtype=torch.float32) * 0.25 + next_value
    tensor.copy_(values.view_as(tensor))
    next_value += 100.0
    print(name, list(tensor.shape), tensor.flatten().tolist())
save_file(model.state_dict(), "from_pytorch.safetensors", metadata={"format": "pt"})
