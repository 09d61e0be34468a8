"""Work in blocks, in one process or in thousands: planned, computed by Apache Beam, kept in files, merged in order.

This room knows no benchmark and no TensorFlow; without Apache Beam installed, all of it but ``pipeline`` imports.
"""
