"""Releases read and drawn by Spark, the extra ``spark``: docs/spark.md."""
