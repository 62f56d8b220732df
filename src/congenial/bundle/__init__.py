"""What a release is when it is published: a folder whose manifest alone determines the law of its tables."""
