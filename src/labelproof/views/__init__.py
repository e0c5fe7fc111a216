"""Views: how a raw batch becomes what a network takes, plain, slightly changed or heavily changed.

Every draw is per example and comes from the generator handed in; the work is batched, on the device
of the batch. Images arrive as uint8 (B, H, W, 3) and leave as float32 (B, 3, h, w); vectors stay
(B, D).
"""

from labelproof.views.defaults import image_statistics, vector_statistics
from labelproof.views.image_views import ImageViews
from labelproof.views.policies import RandAugment
from labelproof.views.sheet import views_sheet
from labelproof.views.vector_views import VectorViews

__all__ = [
    "ImageViews",
    "RandAugment",
    "VectorViews",
    "image_statistics",
    "vector_statistics",
    "views_sheet",
]
