"""Protobuf to domain (`requests`) and back (`answers`)."""
