"""The front in the shape of scikit-learn, and in that of smartnoise-synth."""

from privmw.extensions.synthesizer.synthesizer import Synthesizer

__all__ = ["Synthesizer"]
