"""PDRF: Metin."""
