//! Vector clocks and the partial orders HB, FHB and SHB; lockset
