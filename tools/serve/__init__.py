"""An HTTP server for models, with version 2 of the Open Inference Protocol."""
