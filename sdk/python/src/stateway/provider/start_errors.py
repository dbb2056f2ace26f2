"""Why a provider does not start. The command line prints these errors without a traceback."""

from __future__ import annotations


class StartError(Exception):
    """A mistake that is found before the provider serves. The message says what to correct."""


class TableError(StartError, ValueError):
    """The state table breaks a rule."""


class ClassError(StartError, TypeError):
    """The class of the provider has a mistake."""


class AddressError(StartError, ValueError):
    """The address cannot be used, or contradicts the credentials."""
