"""Line encoder: packed rows to CSV and JSON lines, compiled to WebAssembly. See README.md in this folder."""
