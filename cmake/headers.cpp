// Nothing but a place for the precompiled headers to belong to.
