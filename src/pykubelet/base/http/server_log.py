"""The log of aiohttp's servers, without errors that clients cause: any client could fill the log with bad requests."""

import logging
import ssl

from aiohttp.http_exceptions import HttpProcessingError


def server_logger(name: str) -> logging.Logger:
    """Return the logger for a server of the module with this name."""
    logger = logging.getLogger(f"{name}.aiohttp")
    logger.addFilter(_is_defect)
    return logger


def _is_defect(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError | ssl.SSLError)
