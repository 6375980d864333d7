//! SQL over what is stored, by DataFusion.
