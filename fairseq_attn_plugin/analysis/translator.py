"""The documented import path of :class:`Translator` and :class:`Translation`."""
