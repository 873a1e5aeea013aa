"""Model folders on a Hugging Face Hub: files without code, a card, and the client that sends and takes them."""
