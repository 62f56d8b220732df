"""The daemon of Spark's Python workers, with the package imported before it forks them: a test starts fifty of them."""

if __name__ == "__main__":
    from pyspark.daemon import manager

    import congenial.engines.spark.session_data_and_tasks
    import congenial.sampling.jit  # noqa: F401

    manager()
