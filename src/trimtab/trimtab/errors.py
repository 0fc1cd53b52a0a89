"""Every error that a user can cause, by name. Each text says what is wrong, where, and what to do."""


class TrimtabError(Exception):
    """Base of all errors that are the user's to mend; the command line prints them without a traceback."""


class ConfigError(TrimtabError):
    """A YAML or URDF file is missing, malformed or inconsistent."""


class JointNamesError(TrimtabError):
    """A message, log or file names other joints than the arm has."""


class NotFiniteError(TrimtabError):
    """A number that must be finite is NaN or infinite."""


class ReferenceRefused(TrimtabError):
    """A reference breaks a limit, is malformed or does not start where the arm is; nothing of it is used."""


class BundleRefused(TrimtabError):
    """A model bundle is damaged, not trusted or not made for this arm; nothing of it is used."""


class LogError(TrimtabError):
    """A log or bag cannot be used for what was asked."""


class RecordingError(TrimtabError):
    """A recording cannot begin, cannot go on or cannot be repaired; what was written of it stays readable."""


class RenderError(TrimtabError):
    """This machine cannot draw pictures off screen."""
