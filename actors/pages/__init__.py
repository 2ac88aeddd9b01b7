"""Self-contained HTML pages: templates, charts as inline SVG, and the pages made of them."""
