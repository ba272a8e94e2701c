//! A DNS question and a verdict to an answer plan: own address, NODATA, NXDOMAIN or an error.
