// Placeholder until the room is written.
