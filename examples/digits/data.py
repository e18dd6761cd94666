"""The data: scikit-learn's handwritten digits, 1797 images of 8x8 pixels with values 0 to 16.

``python examples/digits/data.py samples.npz test.npz`` writes the training images, as samples for
vta-compile, and the images held out with their labels ``y``, for ``--evaluate``. The second file
may be left out.
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


def main(samples: str, test: str | None = None) -> None:
    """Write the training images, and the images held out with their labels."""
    images, _, held_out, labels = split()
    np.savez(samples, image=images)
    if test is not None:
        np.savez(test, image=held_out, y=labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
