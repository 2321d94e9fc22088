"""How configs/digits.npz was made: the UCI handwritten digits as scikit-learn ships them, packed as uint8.

    pip install scikit-learn
    python examples/make_digits.py configs/digits.npz

1,797 images of 8x8 pixels (0 to 16) and their labels: the test set of "Optical Recognition of Handwritten Digits" by
E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed CC BY 4.0.
The values are unchanged; only the type is narrower.
"""

from __future__ import annotations

import io
import sys
import zipfile

import numpy as np

ATTRIBUTION = ("Optical Recognition of Handwritten Digits (test set), E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning "
               "Repository, doi.org/10.24432/C50P49, CC BY 4.0; values unchanged, stored as uint8")


def main(output: str) -> None:
    """Write the file; the same input gives the same bytes."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    arrays = {"pixels": digits.data.astype(np.uint8), "labels": digits.target.astype(np.uint8),
              "attribution": np.array(ATTRIBUTION)}
    assert np.array_equal(arrays["pixels"], digits.data)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), data.getvalue(),
                             zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main(sys.argv[1])
