"""Several tables of the same records, decided together in public: from measured margins to records with them."""
