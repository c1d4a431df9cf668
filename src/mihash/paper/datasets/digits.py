"""The one real data set that is always there: scikit-learn's 1,797 handwritten digits."""

from .dataset import Dataset


def digits() -> Dataset:
    """Return scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, 10 classes.

    Examples
    --------
    >>> digits()
    Dataset('digits', 1797 x 64, 10 classes)
    """
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return Dataset("digits", images, classes)
