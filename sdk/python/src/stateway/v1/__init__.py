"""The messages of the API `stateway.v1`. The build generates the modules from `proto/stateway/v1`."""
