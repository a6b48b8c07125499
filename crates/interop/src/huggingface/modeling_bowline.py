"""A word-level LSTM language model of Bowline's, for Hugging Face transformers.

A text stands at the beginning of a sentence: one that does not begin with `<eos>` is read as though it did. So the numbers
are the same whether or not a program puts the token before its texts.
"""

import torch
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class BowlineConfig(PretrainedConfig):
    model_type = "bowline"

    def __init__(self, vocab_size=10000, hidden_size=200, num_hidden_layers=2, **others):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**others)


class BowlineForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = BowlineConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _tied_weights_keys = {"decoder.weight": "encoder.weight"}

    def __init__(self, config):
        super().__init__(config)
        size, d = config.vocab_size, config.hidden_size
        self.encoder = nn.Embedding(size, d)
        self.rnn = nn.LSTM(d, d, config.num_hidden_layers, batch_first=True)
        self.decoder = nn.Linear(d, size, bias=not config.tie_word_embeddings)
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder

    def set_input_embeddings(self, new):
        self.encoder = new

    def get_output_embeddings(self):
        return self.decoder

    def set_output_embeddings(self, new):
        self.decoder = new

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **others):
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def beginnings(self, first):
        """The state before each text: empty if `<eos>` comes first, and otherwise that after an `<eos>`."""
        eos = torch.full((1, 1), self.config.eos_token_id, device=first.device)
        _, state = self.rnn(self.encoder(eos))
        begun = (first != self.config.eos_token_id).to(state[0].dtype).view(1, -1, 1)
        return tuple((part * begun).contiguous() for part in state)

    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **others):
        batch, length = input_ids.shape
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        attention_mask = attention_mask[:, -length:].bool()
        # Words to the left, padding to the right, whichever side it came from.
        order = torch.argsort((~attention_mask).to(torch.uint8), dim=1, stable=True)
        words = input_ids.gather(1, order)
        hidden, _ = self.rnn(self.encoder(words), self.beginnings(words[:, 0]))
        back = torch.argsort(order, dim=1).unsqueeze(-1).expand(-1, -1, hidden.shape[-1])
        logits = self.decoder(hidden.gather(1, back))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return CausalLMOutput(loss=loss, logits=logits)
