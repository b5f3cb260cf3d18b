"""Learning from views: an encoder trained on augmentations of the samples.

The closed form of the samples determines the augmentations and gives positives and pseudo-labels.
"""
