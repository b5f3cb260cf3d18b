"""The HTML report of a run, and plots of fitted estimators; nothing here computes a clustering."""

from dcfsc.report.details import Details, read_details, with_images, write_details
from dcfsc.report.page import render, write_report
from dcfsc.report.texts import cluster_words
from dcfsc.report.thumbnails import images_of, thumbnails

__all__ = [
    "Details",
    "cluster_words",
    "images_of",
    "read_details",
    "render",
    "thumbnails",
    "with_images",
    "write_details",
    "write_report",
]
