// placeholder so the library has a source until the first op lands.
