"""The data: scikit-learn's handwritten digits, 1797 images of 8x8 pixels with values 0 to 16.

``python examples/digits/data.py digits.npz`` writes the training images as samples for vta-compile.
"""

import sys

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

TEST_SHARE = 0.2
SEED = 0


def split() -> tuple[Images, Labels, Images, Labels]:
    """Return the training images and labels and those held out, the same at every call.

    Images are float32 of shape (n, 1, 8, 8), divided by 16 as the network expects them: values
    from 0 to 1. Labels are the digits, int64 of shape (n,). Of every digit a fifth is held out.
    """
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, np.newaxis]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(labels))
    held_out = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        places = order[labels[order] == digit]
        held_out[places[: round(TEST_SHARE * len(places))]] = True
    train, test = order[~held_out[order]], order[held_out[order]]
    return images[train], labels[train], images[test], labels[test]


if __name__ == "__main__":
    np.savez(sys.argv[1], image=split()[0])
