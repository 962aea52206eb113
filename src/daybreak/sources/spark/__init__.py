"""Apache Spark row source."""
