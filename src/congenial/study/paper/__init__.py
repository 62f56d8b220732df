"""Every number, table and figure of Gong and Meng (2020), computed anew beside what they print."""
