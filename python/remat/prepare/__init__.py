"""Makes what `remat train` reads, with Hugging Face's libraries: model folders and files of tokens.

    python -m remat.prepare model SOURCE OUT
    python -m remat.prepare data INPUT --model FOLDER --output OUT

docs/data.md describes the formats.
"""
