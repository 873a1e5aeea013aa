"""Parts of models, in torch and fairseq: encoders, decoders, and what they are made of. Nothing here is registered."""
