"""Every table and figure of the papers, computed here and set beside what the papers print."""
