"""Every limit of inspection and repair in one table, with where it comes from.

"measured" means: on the tuning half of the cases that load/batch_cases.py provokes; load/batch_repair.py reports the
other half apart.
"""

from __future__ import annotations

# Repetition in the text

LONGEST_PERIOD = 60
"""Words (characters in scripts without spaces) that a repeated stretch may have. A window of 30 s holds some 100 words,
so that a longer stretch can't be said twice in it."""
LOOP_TIMES = {1: 4.0, 2: 3.0, 3: 2.7}
LOOP_TIMES_LONG = 2.0
"""Times that a stretch of so many words (of four and more: LONG) is said in a row before it is looked at. People say a
word three times ("no, no, no") and rarely four; a sentence doubled has a compression ratio of only 2.1, under Whisper's
limit, so that this is the rule that finds it. Candidates only: the audio decides."""
COMPRESSION = 2.4
"""zlib ratio of 30 s of text, without the repetitions that the audio bears out. Radford et al. 2022, section 4.5."""
COMPRESSION_WINDOW = 30.0
"""Seconds: the window for which Whisper's limit was made."""

# Truth of a repetition, on the audio

ALIKE = 0.5
"""Correlation of log-mel frames between a stretch and the place where its repetition should be heard. Measured."""
ALIKE_SHARE = 0.7
"""Share of the repetitions that must be alike. Measured."""
BEAT = 0.7
COUNT = 1.25
"""Where the sound has a period of its own (its correlation with itself reaches BEAT), the text may say it at most so
many times as often as it is heard. Measured."""
LETTERS_A_SECOND_OF_VOICE = 25.0
"""Letters that a second of voice has room for: the fastest articulate speech, 6 to 7 words a second at 4 letters
(Carver 1990; auctioneers and record holders are faster and not understood by models either)."""
VOICED = 0.6
"""Share of the repeated words that must lie on voice. Measured."""

# Words and voice

NEAR = 0.3
"""Seconds that a word's times may be off (the median error of attention-based word times is under 0.1 s, its 95th
percentile near 0.3 s)."""
SILENT_WORDS = 1
"""Words in a row, away from all voice, that are suspicious."""
WORDLESS = 1.0
"""Seconds of voice without a word (the contract of the batch lane; the live lane's finals use the same)."""
PAUSE = 1.0
"""Seconds between two words that count as covered by them (a breath, a hesitation)."""

# Rates

RATE_WORDS = 6
"""Words of a window in which rates are measured: fewer are as uncertain as their times."""
LETTERS_A_SECOND = 30.0
"""Conversation has 12 to 18, an audiobook at double speed 30."""
UNSPACED_A_SECOND = 13.0
"""Characters a second of scripts without spaces: fast Japanese has 9 kana, fast Mandarin 7 syllables (Pellegrino et al.
2011 give 7.84 and 5.18 on average)."""
INSTANT = 0.02
"""Seconds: a word this short is no word (one step of the attention)."""
INSTANT_SHARE = 0.5
"""Share of such words from which a stretch is suspicious (stable-ts: max_instant_words)."""

# Belief

LOGPROB = -1.0
"""Mean log probability of a segment's tokens under which the model does not believe itself (Radford et al. 2022,
section 4.5)."""
DOUBT = -0.6
NO_SPEECH = 0.6
CONFIDENCE = 0.5
VOICE_SHARE = 0.5
"""A phrase that models make up over silence is suspicious only when the log probability is under DOUBT, the chance of
no speech over NO_SPEECH (Radford et al.), the words' mean confidence under CONFIDENCE or the share of voice in them
under VOICE_SHARE. Careless Whisper (FAccT 2024): made-up phrases stand by non-vocal stretches. Measured."""

# Language

MAJORITY = 0.8
"""Share of the speech in one language from which another, in a short or doubtful stretch, is a flip."""
FLIP_SECONDS = 10.0
"""Seconds of another language that nobody doubts: a flip is a chunk or less."""
FLIP_LOGPROB = -0.5
FOREIGN_SCRIPT = 0.5
"""Share of letters in a script that the language is not written in."""

# Repair

TRIES = 6
"""Decodes for one span."""
BUDGET = 0.3
BUDGET_FLOOR = 180.0
"""Audio that all repairs of a job may decode: this share of its length, and so many seconds in any case (a short file
that is one loop costs little to mend)."""
SPAN = 26.0
LOOP_SPAN = 12.0
"""Seconds of the longest span that is decoded again at once: with padding it fits the model's window. Where the model
loops, shorter: what it loops over in 30 s it often hears right in 5."""
REACH = 6.0
"""Seconds that a span grows at most to each side in search of a silence."""
QUIET = 0.2
"""Seconds of a silence at which a span may begin or end."""
