"""What is learnt: the loss, the batches and the scores of translation."""
