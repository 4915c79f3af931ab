"""Pictures and tables of plain values, as SVG, HTML and text: pure functions of what they show."""
