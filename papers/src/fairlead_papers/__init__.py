"""Every table and figure of the papers, computed again and compared with the printed ones."""
