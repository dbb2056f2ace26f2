"""The messages of the contract of providers. The build generates the modules from `proto/stateway/provider/v1`."""
