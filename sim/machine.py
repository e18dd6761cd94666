"""stub"""
from .reference import ReferenceMachine as FastMachine
